"""Fuzzing of everything that reads bytes from elsewhere: ``scripts/fuzz``, and a short run among the tests.

readers.py     each reader, samples that it takes, and what has to hold of its result
mutations.py   samples damaged by their structure: values, keys, lines, bytes
run.py         the long run: each reader in a process of its own, with limits of time and memory
corpus/        samples that once broke a reader; all tests read them again
"""
