SELECT region, count(*) AS orders
FROM sales
WHERE amount > 20
GRUOP BY region
ORDER BY region;
