SELECT region, count(*) AS sales, round(sum(amount), 2) AS total
FROM sales
GROUP BY region
ORDER BY total DESC;
