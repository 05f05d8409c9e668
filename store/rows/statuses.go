package rows

// Lists of statuses in SQL: those that are not terminal, and those of them in which a call does not wait for an answer.
const (
	Unfinished = "('NEW', 'RUNNING', 'SUSPENDED', 'RESUMING')"
	Begun      = "('NEW', 'RUNNING', 'RESUMING')"
)
