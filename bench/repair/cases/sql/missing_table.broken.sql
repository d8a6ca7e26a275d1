SELECT s.region, count(*) AS orders
FROM sale s
GROUP BY s.region
ORDER BY orders DESC, s.region;
