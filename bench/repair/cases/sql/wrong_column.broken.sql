SELECT region, sum(price) AS revenue
FROM sales
GROUP BY region
ORDER BY region;
