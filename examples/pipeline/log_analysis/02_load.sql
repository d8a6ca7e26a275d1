CREATE TABLE IF NOT EXISTS requests (address TEXT, hour INTEGER, path TEXT, status INTEGER, bytes INTEGER);
INSERT INTO requests SELECT address, hour, path, status, bytes FROM "tmp/requests.csv";
CREATE VIEW IF NOT EXISTS failures AS SELECT * FROM requests WHERE status >= 400;
