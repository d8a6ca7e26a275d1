CREATE TABLE IF NOT EXISTS totals (region TEXT PRIMARY KEY, amount REAL NOT NULL);
INSERT INTO totals SELECT region, sum(amount) FROM sales GROUP BY region;
SELECT region, amount FROM totals ORDER BY region;
