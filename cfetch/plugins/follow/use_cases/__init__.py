"""What ``cfetch follow`` does, a file each: a use case of a feed, without its flags and its printing.

    follow.py           keeps a directory in step with a feed: one removable plan after another
    follow_options.py   what a user says about it, and whether that fits feed and destinations
    feed_plans.py       brings the changes of a feed by these plans, and deletes within a bound
    mirror.py           the destinations of a follower, and which files there are its own
    own_files.py        the record of the files that a follower has put in place
    follow_status.py    how far a follower is behind its feed
    follow_check.py     compares the files here with a feed, and changes nothing
    follow_text.py      the words of ``cfetch follow`` about its own work

::

    finish the step that a dead follower had begun, then for ever:
        gather changes -> rounds -> journal.begin   the whole step on disk before its first round
        each round: deletes, then a plan            a file that cannot be had is pending
        journal.end -> the checkpoint is in force

When it fails: a follower that died repeats the same round that it had begun, whatever the feed says now. It
replaces and deletes only files that it has recorded, and it records what it begins before it touches a file.
"""
