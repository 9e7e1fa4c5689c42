"""One script per table or figure; mathematics imported, never pasted. Add a file to add an experiment."""
