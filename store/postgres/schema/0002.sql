-- A new owner needs these columns of the previous owner: how long that owner may act without the server, and where it runs.
ALTER TABLE meta ADD COLUMN lease bigint NOT NULL DEFAULT 30000000000;  -- nanoseconds from the owner's last proof until it stops
ALTER TABLE meta ADD COLUMN home text NOT NULL DEFAULT '';              -- boot id of the machine, and the directory that the owner has locked
ALTER TABLE meta ADD COLUMN holding boolean NOT NULL DEFAULT false;     -- the owner still leaves the attempts of earlier epochs alone
