SELECT region, sum(amount) AS revenue
FROM sales
GROUP BY region
ORDER BY region;
