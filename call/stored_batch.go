package call

// EncodeBatch returns the stored form of a batch without its end time, which stores keep in a column. It fails like EncodeCall.
func EncodeBatch(b *Batch) ([]byte, error) {
	w := &wire{out: []byte{storedVersion}}
	start := w.open()
	batchFields(w, b)
	w.close(start)
	return w.written(nil)
}

// DecodeBatch decodes the result of EncodeBatch.
func DecodeBatch(stored []byte) (*Batch, error) {
	body, err := unframe(stored)
	if err != nil {
		return nil, err
	}
	w, b := newReader(body), new(Batch)
	w.nextKey()
	batchFields(w, b)
	w.finish()
	if w.err != nil {
		return nil, w.err
	}
	return b, nil
}

func batchFields(w *wire, b *Batch) {
	text(w, 1, &b.Namespace)
	text(w, 2, &b.ID)
	text(w, 3, &b.Caller)
	text(w, 4, &b.Digest)
	text(w, 5, &b.Strategy)
	integer(w, 6, &b.MaxParallel)
	flag(w, 7, &b.FailFast)
	text(w, 8, &b.Replay)
	list(w, 9, &b.Calls, func(w *wire, id *string) { text(w, 1, id) })
	integer(w, 10, &b.Created)
	blob(w, 11, &b.Turn)
}
