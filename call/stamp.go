package call

import "time"

// A Stamp is a time of the store's clock, in Unix nanoseconds; zero means no time. Stored times that the daemon compares are stamps. All
// other times come from the machine's clock and are for people. They must not be compared with a stamp.
type Stamp int64

// StampOf converts a date that a person or another program has named, or a time that was stored. It is not for the machine's clock.
func StampOf(t time.Time) Stamp {
	if t.IsZero() {
		return 0
	}
	return Stamp(t.UnixNano())
}

// Time returns the stamp in a form for people, in UTC.
func (s Stamp) Time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(s)).UTC()
}

// Add returns the stamp that is d later.
func (s Stamp) Add(d time.Duration) Stamp { return s + Stamp(d) }

// Sub returns how long s is after o.
func (s Stamp) Sub(o Stamp) time.Duration { return time.Duration(s - o) }

// Truncate returns s rounded down to a multiple of d.
func (s Stamp) Truncate(d time.Duration) Stamp { return s - s%Stamp(d) }

// String returns the text that [Stamp.Time] has.
func (s Stamp) String() string { return s.Time().String() }

// MarshalJSON returns the same text as for a [time.Time].
func (s Stamp) MarshalJSON() ([]byte, error) { return s.Time().MarshalJSON() }

// UnmarshalJSON reads the text of MarshalJSON.
func (s *Stamp) UnmarshalJSON(b []byte) error {
	var t time.Time
	err := t.UnmarshalJSON(b)
	*s = StampOf(t)
	return err
}
