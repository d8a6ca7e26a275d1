CREATE TABLE IF NOT EXISTS sales (id INTEGER PRIMARY KEY, region TEXT, sold_on TEXT, amount REAL);
INSERT INTO sales (id, region, sold_on, amount)
VALUES (1, 'north', '2026-01-03', 120.5), (2, 'south', '2026-01-03',);
