package store

// Load is the function Load for a checkpoint of this directory, by the path that List gives.
func (d *Dir) Load(path string, m *Memory, workers int) (*Info, error) {
	return Load(d.fs, path, m, workers)
}
