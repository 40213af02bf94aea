"""Tests of Wattkeeper; the folders mirror the packages."""
