package postgres

import (
	"github.com/toold-dev/toold/store/rows"
)

const selectOpen = "SELECT " + rows.BatchColumns + " FROM batches WHERE ended IS NULL AND (namespace, batch_id) > ($1, $2) ORDER BY namespace, batch_id LIMIT $3"
