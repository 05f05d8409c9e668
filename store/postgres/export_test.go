package postgres

// Migrate is migrate, for tests of schemas that there are not yet.
var Migrate = migrate

// GroupStatements are those that a group of changes is read and written with, and the indexes that they have to go by.
var GroupStatements = map[string][]string{
	selectStanding: {"calls_id", "tombstones_pkey"},
	selectDecided:  {"decisions_pkey"},
	refuseTrimmed:  {"tombstones_pkey"},
	updateCalls:    {"calls_pkey"},
	touchCalls:     {"calls_pkey"},
	updateStatuses: {"statuses_pkey"},
	deleteStatuses: {"statuses_pkey"},
	selectStates:   {"documents_pkey"},
	selectRooms:    {"documents_pkey"},
}

// FeedPage reads a page of a feed.
const FeedPage = page
