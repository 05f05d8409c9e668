-- What a successor has to know of the owner before it: for how long that may act without the server, and where it lives.
ALTER TABLE meta ADD COLUMN lease bigint NOT NULL DEFAULT 30000000000;  -- nanoseconds from the owner's last proof to its end
ALTER TABLE meta ADD COLUMN home text NOT NULL DEFAULT '';              -- boot of the machine, and the directory that the owner has locked
ALTER TABLE meta ADD COLUMN holding boolean NOT NULL DEFAULT false;     -- the owner leaves the attempts of earlier epochs alone still
