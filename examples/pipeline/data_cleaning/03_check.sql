SELECT email, name, country, seen FROM customers ORDER BY email;
SELECT count(*) AS without_country FROM customers WHERE country IS NULL;
