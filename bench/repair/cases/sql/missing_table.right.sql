SELECT s.region, count(*) AS orders
FROM sales s
GROUP BY s.region
ORDER BY orders DESC, s.region;
