SELECT region, count(*) AS orders
FROM sales
WHERE amount > 20
GROUP BY region
ORDER BY region;
