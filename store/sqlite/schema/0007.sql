-- Each chained record is linked to the one before it of its kind and namespace. Before this version only those of kind audit were chained.
ALTER TABLE records ADD COLUMN chained INTEGER NOT NULL DEFAULT 0;
UPDATE records SET chained = 1 WHERE kind = 'audit';
