package postgres

// Migrate is migrate, for tests of schemas that there are not yet.
var Migrate = migrate
