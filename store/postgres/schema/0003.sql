-- Each chained record is linked to the one before it of its kind and namespace. Before this version only those of kind audit were chained.
ALTER TABLE records ADD COLUMN chained boolean NOT NULL DEFAULT false;
UPDATE records SET chained = true WHERE kind = 'audit';
