-- Which call of a parallel group claimed a document last.
ALTER TABLE documents ADD COLUMN claim_group TEXT NOT NULL DEFAULT '';
ALTER TABLE documents ADD COLUMN claim_call TEXT NOT NULL DEFAULT '';
