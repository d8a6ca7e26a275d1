WITH ranked AS (
    SELECT hour, path, count(*) AS hits,
           rank() OVER (PARTITION BY hour ORDER BY count(*) DESC, path) AS place
    FROM requests
    GROUP BY hour, path
)
SELECT hour, path, hits FROM ranked WHERE place <= 2 ORDER BY hour, place;
