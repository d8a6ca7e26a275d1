SELECT region, count(*) AS revenue
FROM sales
GROUP BY region
ORDER BY region;
