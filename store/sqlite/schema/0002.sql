-- The principal that began a run is known from its calls until they are trimmed; a blocked run outlives its calls.
ALTER TABLE runs ADD COLUMN owner TEXT NOT NULL DEFAULT '';
