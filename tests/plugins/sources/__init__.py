"""Tests of the schemes beyond http and object stores."""
