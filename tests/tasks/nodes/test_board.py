"""The board: claims have one maker, and dead nodes are known by their counts."""

import random
import shutil
import threading
from collections import Counter
from typing import Any

import pytest

from cfetch.base.errors import LocalFault
from cfetch.tasks.hub.receipts import STOP_NAME, share_receipt_name
from cfetch.tasks.nodes.board import MOST_TURNS, Board, SharedJob, read_job, write_job
from cfetch.tasks.shares.dealing import LEASE_S, CutShares
from cfetch.tasks.shares.protocol import MOST_HOLDERS
from cfetch.tasks.shares.work import Turn
from cfetch.timeline.heartbeat import Heartbeats
from cfetch.timeline.table import this_node

NO_PLAN: Any = None
BEATS = Heartbeats(interval_s=1.0, misses=2)


class Scene:
    """Directories of one epoch, and nodes with a clock that the test sets."""

    def __init__(self, folder, shares=3):
        self.board, self.receipts, self.fence = folder / "shares-1", folder / "receipts", folder / "1"
        self.receipts.mkdir()
        self.fence.mkdir()
        self.cut = CutShares(NO_PLAN, [[n] for n in range(shares)], [1] * shares)
        self.now_s = 0.0
        self.buried: list[int] = []
        self.moved: list[int] = []  # of these, whose parts were moved
        self.opened: list[Board] = []
        members = list(map(list, self.cut.members))
        write_job(self.board, SharedJob(members=members, sharers=[1] * shares, wall_start_s=5.0))

    def node(self, *, is_gone=False, heartbeats=BEATS):
        """A board as another machine sees it: ``is_gone`` says whether it knows that others have ended."""
        node = this_node()._replace(
            monotonic=lambda: self.now_s, is_gone=lambda _: is_gone, has_restarted=lambda _: False
        )
        board = Board(
            self.board,
            self.cut,
            epoch=1,
            receipts=self.receipts,
            fence=self.fence,
            node=node,
            heartbeats=heartbeats,
            bury_task=self.bury,
        )
        self.opened.append(board)
        return board

    def end(self, turn):
        (self.receipts / share_receipt_name(1, turn.share)).touch()

    def bury(self, task, *, moves=True):
        self.buried.append(task)
        self.moved += [task] * moves

    def silence(self, board):
        """The node stands still: it beats no more."""
        if board._beats._beating is not None:
            board._beats._beating.stop()

    def idle(self, board, seconds, *living):
        """Let the node ask each second, while others beat. Returns the first turn that it gets."""
        for _ in range(int(seconds)):
            self.now_s += 1
            for other in living:
                other._beats._pulse.beat()
            if (turn := board.take()) is not None:
                return turn
        return None


@pytest.fixture
def scene(tmp_path):
    made = Scene(tmp_path)
    yield made
    for board in made.opened:
        board.close()


def test_a_job_is_read_as_it_was_written(scene):
    """Where there is none, there is none yet."""
    job = read_job(scene.board)
    assert job is not None
    assert (job.members, job.wall_start_s) == ([[0], [1], [2]], 5.0)
    assert read_job(scene.fence) is None


def test_a_job_of_another_version_is_refused(scene):
    """The message names the way out."""
    (scene.board / "job").write_bytes(b"\x81\xa1x\x01")
    with pytest.raises(LocalFault, match="same version"):
        read_job(scene.board)


def test_each_share_is_claimed_once(scene):
    """By many threads of many nodes at a time."""
    boards, turns = [scene.node() for _ in range(4)], []

    def work(board):
        while (turn := board.take()) is not None:
            turns.append(turn)

    threads = [threading.Thread(target=work, args=(board,)) for board in boards * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(turns) == [Turn(0, 1), Turn(1, 2), Turn(2, 3)]
    assert not boards[0].is_over()


def test_it_is_over_when_each_share_has_its_receipt(scene):
    """Not before."""
    board = scene.node()
    turns = [board.take() for _ in range(3)]
    for turn in turns:
        assert not board.is_over()
        scene.end(turn)
    assert board.is_over()
    assert board.is_whole
    assert board.take() is None


@pytest.mark.parametrize("end", ["stop", "fence", "board"])
def test_it_is_over_when_the_leader_ends(scene, end):
    """It has asked all to stop, another run has taken the plan over, or the plan is completed."""
    board = scene.node()
    turn = board.take()
    if end == "stop":
        (scene.receipts / STOP_NAME).touch()
    else:
        shutil.rmtree(scene.fence if end == "fence" else scene.board)
    assert board.is_over()
    assert not board.is_whole
    assert (board.take(), board.take_again(turn), board.is_mine(turn)) == (None, None, False)


def test_a_node_that_leaves_gives_its_share_up_at_once(scene):
    """Its parts are kept for the next turn, which is another task."""
    leaving, staying = scene.node(), scene.node()
    first = leaving.take()
    others = [staying.take(), staying.take()]
    assert staying.take() is None
    leaving.close()
    again = staying.take()
    assert again == Turn(first.share, first.task + 3)
    assert scene.buried == scene.moved == [first.task]
    assert first.share not in {turn.share for turn in others}


def test_the_parts_of_a_dead_node_are_taken_by_the_node_that_claims_its_share(scene):
    """Once, even if others have seen its death too: what two nodes copy at a time may be torn."""
    leaving, faster, slower = (scene.node() for _ in range(3))
    first, _, _ = leaving.take(), faster.take(), faster.take()
    assert slower.take() is None
    leaving.close()
    slower._hear_tasks()
    again = faster.take()
    faster.close()
    assert slower.take() == Turn(first.share, again.task + 3)
    assert scene.buried == [first.task, again.task]


def test_a_node_that_stands_still_loses_its_share_after_its_expiry(scene):
    """By the clock of the node that looks; when it wakes up, it knows."""
    asleep, awake = scene.node(), scene.node()
    first = asleep.take()
    for _ in range(2):
        awake.take()
    scene.silence(asleep)
    assert awake.take() is None
    scene.now_s += BEATS.expiry_s
    assert awake.take() is None
    scene.now_s += 0.1
    again = awake.take()
    assert again == Turn(first.share, first.task + 3)
    assert (scene.buried, scene.moved) == ([first.task], [])  # it may wake up, and write into them
    assert not asleep.is_mine(first)
    assert awake.is_mine(again)


def test_a_node_that_wakes_up_takes_shares_under_another_name(scene):
    """Under its old name others would take them away at once."""
    asleep, awake = scene.node(), scene.node()
    asleep.take()
    scene.silence(asleep)
    name = asleep._beats.name
    scene.now_s += BEATS.expiry_s + 1
    assert asleep.take() is not None
    assert asleep._beats.name != name
    awake.take()
    assert awake.take() is None  # the first claim has just been seen, and is watched from now on


def test_a_node_whose_beat_is_not_seen_is_watched(scene):
    """A network file system may show a claim before the beat that was written earlier."""
    hidden, looking = scene.node(), scene.node()
    first = hidden.take()
    looking.take()
    looking.take()
    scene.silence(hidden)
    (scene.board / "heartbeats" / f"{hidden._beats.name}.json").unlink()
    assert looking.take() is None
    scene.now_s += Heartbeats().expiry_s + 0.1  # whose beat is unknown, its expiry is unknown too
    assert looking.take() == Turn(first.share, first.task + 3)


def test_a_process_that_is_known_to_have_ended_loses_its_share_at_once(scene):
    """Nodes on one machine see each other's processes."""
    ended, looking = scene.node(), scene.node(is_gone=True)
    first = ended.take()
    looking.take()
    looking.take()
    scene.silence(ended)
    assert looking.take() == Turn(first.share, first.task + 3)


def test_a_share_whose_process_died_gets_its_next_turn_unless_others_have_it(scene):
    """The node may have stood still meanwhile."""
    board, other = scene.node(), scene.node()
    turn = board.take()
    again = board.take_again(turn)
    assert again == Turn(turn.share, turn.task + 3)
    assert board.take_again(turn) is None
    assert other.is_mine(again)  # whoever asks: the turn is the share's last one


def test_an_idle_node_brings_a_copy_of_the_share_of_a_silent_one(scene):
    """Long before that one is dead; it keeps its parts, and whoever is done first is believed."""
    silent, idle, other = (scene.node(heartbeats=Heartbeats()) for _ in range(3))
    first = silent.take()
    for board in (idle, other):
        scene.end(board.take())
    scene.silence(silent)
    assert scene.idle(idle, LEASE_S) is None  # it is first heard when one listens, and then no more
    copy = scene.idle(idle, 1)
    assert copy == Turn(first.share, first.task + 3, attempt=1)
    assert scene.idle(other, LEASE_S + 2, idle) is None  # the copy lives, and a share has two tasks at most
    assert scene.buried == []
    assert all(board.is_mine(turn) for board in scene.opened for turn in (first, copy))
    scene.end(first)
    assert not any(board.is_mine(turn) for board in scene.opened for turn in (first, copy))
    assert idle.is_over()


def test_a_share_with_two_silent_nodes_waits_until_one_of_them_is_dead(scene):
    """Also a node that comes later knows who may still bring it, by the claims alone."""
    silent, idle, last = (scene.node(heartbeats=Heartbeats()) for _ in range(3))
    first = silent.take()
    for _ in range(2):
        scene.end(idle.take())
    scene.silence(silent)
    copy = scene.idle(idle, LEASE_S + 1)
    scene.silence(idle)
    assert scene.idle(last, 2 * LEASE_S) is None
    idle.close()
    assert scene.idle(last, 1) == Turn(first.share, copy.task + 3, attempt=1)
    assert scene.buried == scene.moved == [copy.task]
    late = scene.node(heartbeats=Heartbeats())
    assert [late.is_mine(turn) for turn in (first, copy)] == [True, False]


def test_a_living_node_with_a_silent_process_brings_a_copy_itself(scene):
    """Other nodes hear only the node, which beats."""
    board, other = (scene.node(heartbeats=Heartbeats()) for _ in range(2))
    turns = [board.take() for _ in range(3)]
    for _ in range(int(LEASE_S) - 1):
        assert scene.idle(other, 1, board) is None
        assert board.take() is None
        for turn in turns[:2]:
            board.renew(turn)
    assert scene.idle(other, 1, board) is None
    assert board.take() == Turn(2, 6, attempt=1)


@pytest.mark.parametrize("seed", range(3))
def test_every_share_is_brought_whoever_dies_or_falls_silent(tmp_path, seed):
    """No two turns are one task, at most two tasks have a share, and nobody takes one from a living node."""
    dice, scene = random.Random(seed), Scene(tmp_path, shares=4)
    witness, living = scene.node(heartbeats=Heartbeats()), list[Board]()
    at_work: list[tuple[Board, Turn]] = []
    tasks: set[int] = set()
    while not witness.is_over():
        while len(living) < 3:
            living.append(scene.node(heartbeats=Heartbeats()))
        scene.now_s += dice.choice([0, 1, 3])
        for board in living:
            if board._beats._pulse is not None:
                board._beats._pulse.beat()
        board, fate = dice.choice(living), dice.random()
        if fate < 0.7 and (turn := board.take()) is not None:
            assert turn.task not in tasks
            tasks.add(turn.task)
            at_work.append((board, turn))
        elif 0.7 < fate < 0.75 and at_work:
            scene.end(at_work.pop(dice.randrange(len(at_work)))[1])
        elif fate > 0.9:
            living.remove(board)
            if fate > 0.95:
                scene.silence(board)
            else:
                board.close()
                at_work = [(other, turn) for other, turn in at_work if other is not board]
        left = [(board, turn) for board, turn in at_work if witness.is_mine(turn)]
        assert max(Counter(turn.share for _, turn in left).values(), default=0) <= MOST_HOLDERS
        over = witness._list_over()
        assert all(pair in left for pair in at_work if pair[0] in living and pair[1].share not in over)
    for board in scene.opened:
        board.close()


def test_a_share_that_kills_its_nodes_is_a_fault(scene):
    """Else it would be begun for ever."""
    board = scene.node()
    turn = board.take()
    for _ in range(MOST_TURNS - 1):
        turn = board.take_again(turn)
    with pytest.raises(LocalFault, match="was begun 20 times"):
        board.take_again(turn)
