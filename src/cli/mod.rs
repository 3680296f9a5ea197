//! Commands, one file each.
