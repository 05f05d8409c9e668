package rows

// Lists of statuses in SQL. Unfinished has every status that is not terminal. Begun has the same statuses except SUSPENDED.
const (
	Unfinished = "('NEW', 'RUNNING', 'SUSPENDED', 'RESUMING')"
	Begun      = "('NEW', 'RUNNING', 'RESUMING')"
)
