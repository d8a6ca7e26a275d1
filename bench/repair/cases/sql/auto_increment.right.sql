CREATE TABLE IF NOT EXISTS audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    region TEXT NOT NULL,
    orders INTEGER NOT NULL
);
INSERT INTO audit (region, orders) SELECT region, count(*) FROM sales GROUP BY region ORDER BY region;
SELECT * FROM audit;
