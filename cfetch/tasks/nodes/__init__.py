"""One plan brought by several machines that share its destinations: ``cfetch plan run INSTANT --together``.

Each machine, a *node*, runs the same command, at any time. The first one leads: it holds the plan on the
timeline, cuts it into shares, and writes down on a *board* which entries belong to which share. All nodes,
the leader too, claim one share after the other there and bring it by processes of their own, as
``tasks/processes/`` does. Receipts tell every node which files are in place.

::

    leader      take the plan, cut it, set up the board        engine.py, board.py
                settle the plan when all shares are over       cfetch/tasks/shares/driver.py
    each node   claim a share, bring it, leave its receipt     board.py, ../processes/child_processes.py
                show the run of all nodes by their receipts
    with several volumes, instead of claims
    leader      deal shares to its processes and other nodes   desk.py, ../shares/lending.py
    others      ask the leader, say what volumes refuse        remote_shares.py
                the words between them                         asking.py
                which of them has which part                   placed_nodes.py

Who has which share is the state table of ``tasks/shares/protocol.py``, whose events are the claims on the
board. Read in this order: ``board.py`` (the files), ``beats.py`` (who lives), ``engine.py``, ``joining.py``
(how a node finds the leader's board).

When it fails: a node that stands still keeps its share from nobody: once everything is claimed, an idle node
brings a copy of it. A node that dies, or stands still for as long as a heartbeat may, loses its shares:
another node claims them for their next turn and keeps the parts that they have left. A node that wakes up
then cannot publish these parts, as their directory is gone. If the leader dies, the other nodes bring all
shares first; then one of them takes the plan over in a new epoch, as after the death of any run, and settles
it. Ctrl-C ends one node, and the others go on.

With several volumes nobody but the leader can deal: if it dies, the others bring what they have, and one of
them that sees all volumes takes the plan over. What a volume refuses goes back to the leader, and its batches
wait for another.

Where to change: ``Board.take`` in ``board.py`` decides which share a node claims; with several volumes that
is ``PlacedShares``.
"""
