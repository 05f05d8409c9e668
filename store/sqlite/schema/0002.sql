-- Who began a run is known from its calls until they are trimmed; a blocked run outlives them.
ALTER TABLE runs ADD COLUMN owner TEXT NOT NULL DEFAULT '';
