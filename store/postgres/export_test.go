package postgres

// Migrate exports migrate for tests with future schemas.
var Migrate = migrate

// GroupStatements maps the statements that read and write a group to the indexes that they must use.
var GroupStatements = map[string][]string{
	selectState:    {"calls_id", "tombstones_pkey"},
	selectDecided:  {"decisions_pkey"},
	refuseTrimmed:  {"tombstones_pkey"},
	updateCalls:    {"calls_pkey"},
	touchCalls:     {"calls_pkey"},
	updateStatuses: {"statuses_pkey"},
	deleteStatuses: {"statuses_pkey"},
	selectStates:   {"documents_pkey"},
	selectUsage:    {"documents_pkey"},
}

// FeedPage is the statement that reads a page of a feed.
const FeedPage = page
