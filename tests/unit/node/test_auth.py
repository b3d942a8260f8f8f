"""Passwords: right ones let in, wrong ones and unknown users take the same way, and floods are turned away."""

import base64
import hashlib
from collections.abc import Callable
from typing import Any

import argon2
import pytest

from broker.errors import BrokerError, PreconditionFailed, ResourceExhausted
from broker.login.login_queue import LoginLimits
from broker.pending import Pending
from broker.records import UserRecord
from node.background import Inline
from node.logins.auth import PASSWORD_BYTES_MAX, HashCost, Verifier, VerifierLimits, unmatched_hash
from node.logins.password_hashes import ARGON2, Hashes

CHEAP = HashCost(memory_kib=8, passes=1)


class Held:
    """Work waits until the test lets it run."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Any]] = []

    def run(self, work: Callable[[], Any], done: Any) -> None:
        self.waiting.append((work, done))

    def release(self) -> None:
        work, done = self.waiting.pop(0)
        Inline().run(work, done)

    def close(self) -> None:
        pass


class Counting(Verifier):
    """Counts what is expensive, and for which hash."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.argon2_hashes: list[str] = []
        super().__init__(*args, **kwargs)

    def _argon2_matches(self, kept: str, password: bytes) -> bool:
        self.argon2_hashes.append(kept)
        return super()._argon2_matches(kept, password)


class Later:
    """Calls that are due later, at a time of the test's own."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, Callable[[], None]]] = []

    def __call__(self, seconds: float, call: Callable[[], None]) -> None:
        self._due.append((self.now + seconds, call))

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self._due and min(at for at, _ in self._due) <= end:
            self._due.sort(key=lambda one: one[0])
            at, call = self._due.pop(0)
            self.now = max(self.now, at)
            call()
        self.now = end


def verifier(
    background: Any = None, limits: VerifierLimits | None = None, hashing: str = ARGON2
) -> tuple[Counting, Later]:
    later = Later()
    return Counting(background or Inline(), lambda: later.now, later, CHEAP, limits, hashing), later


def verify(auth: Verifier, user: UserRecord | None, password: bytes, source: str = "192.0.2.1") -> Pending[bool]:
    return auth.verify(user, password, user.name if user is not None else "nobody", source)


def answer(pending: Pending[bool]) -> bool | BrokerError:
    answers: list[bool | BrokerError] = []
    pending.then(answers.append, answers.append)
    assert len(answers) == 1
    return answers[0]


def test_a_password_and_its_hash() -> None:
    auth, _ = verifier()
    kept = auth.hash("geheim")
    assert kept.startswith("$argon2id$") and "geheim" not in kept and kept != auth.hash("geheim")
    user = UserRecord("u", kept)
    assert answer(verify(auth, user, b"geheim")) is True
    for wrong in (b"Geheim", b"", b"geheim\0", b"x" * PASSWORD_BYTES_MAX):
        assert answer(verify(auth, user, wrong)) is False


def test_every_refusal_costs_one_verification() -> None:
    auth, _ = verifier()
    user = UserRecord("u", auth.hash("right"))
    imported = UserRecord("i", imported_from_rabbitmq(rabbitmq_hash("right")))
    for who in (user, imported, None, UserRecord("nobody", None), UserRecord("broken", "$argon2id$nonsense")):
        auth.argon2_hashes.clear()
        assert answer(verify(auth, who, b"wrong")) is False
        assert len(auth.argon2_hashes) == 1


def rabbitmq_hash(password: str) -> str:
    salt = b"\x01\x02\x03\x04"
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def imported_from_rabbitmq(password_hash: str) -> str:
    return Hashes().imported("rabbit_password_hashing_sha256", password_hash)


# As RabbitMQ gave them: the first by a genuine 4.3.6, the next two with the salt 908DC60A, of the documentation's "test12".
OF_RABBITMQ = [
    ("sha256", "tQX2XmxlCDVTxICCUhYvSpl/scEKidmUfx2tbljNbNlxlyAC", b"b"),
    ("sha256", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", b"test12"),
    (
        "sha512",
        "kI3GChuNuIYf8lRbCCxZjgjKwsY19ns6+uFO0zcXRBGA/XGJPYD8OWMy7EB8TaOmAzjP2azv84GbINYwX2cDWb4DHnc=",
        b"test12",
    ),
    ("md5", base64.b64encode(b"salt" + hashlib.md5(b"salt" + b"old").digest()).decode(), b"old"),
]


@pytest.mark.parametrize(("digest", "encoded", "password"), OF_RABBITMQ)
def test_hashes_of_rabbitmq_let_their_users_in_and_go_out_as_they_came(
    digest: str, encoded: str, password: bytes
) -> None:
    auth, _ = verifier()
    algorithm = f"rabbit_password_hashing_{digest}"
    kept = Hashes().imported(algorithm, encoded)
    assert answer(verify(auth, UserRecord("u", kept), password)) is True
    assert answer(verify(auth, UserRecord("u", kept), password + b"a")) is False
    assert Hashes().exported(kept) == (algorithm, encoded)
    assert auth.argon2_hashes, "each costs as much as any other"


@pytest.mark.parametrize(("digest", "encoded", "_password"), OF_RABBITMQ[:3])
def test_a_hash_that_comes_without_its_algorithm_is_known_by_its_length(
    digest: str, encoded: str, _password: bytes
) -> None:
    assert Hashes().imported("", encoded) == Hashes().imported(f"rabbit_password_hashing_{digest}", encoded)


@pytest.mark.parametrize("digest", ["sha256", "sha512", "md5"])
def test_what_is_no_hash_of_rabbitmq_is_refused(digest: str) -> None:
    for wrong in ("no base64!", base64.b64encode(b"short").decode(), base64.b64encode(bytes(100)).decode()):
        with pytest.raises(PreconditionFailed):
            Hashes().imported(f"rabbit_password_hashing_{digest}", wrong)
    auth, _ = verifier()
    assert answer(verify(auth, UserRecord("u", f"$rabbit-{digest}$damaged"), b"b")) is False


@pytest.mark.parametrize("hashing", ["sha256", "sha512"])
def test_new_passwords_are_kept_in_rabbitmqs_form_where_that_is_wanted(hashing: str) -> None:
    auth, _ = verifier(hashing=hashing)
    kept = auth.hash("new")
    assert Hashes().exported(kept)[0] == f"rabbit_password_hashing_{hashing}" and kept != auth.hash("new")
    assert answer(verify(auth, UserRecord("u", kept), b"new")) is True
    assert answer(verify(auth, UserRecord("u", verifier()[0].hash("older")), b"older")) is True


def test_a_password_that_is_kept_already_is_not_hashed_anew() -> None:
    """Or who imports it at each start would end the user's connections each time."""
    auth, _ = verifier()
    for kept in (auth.hash("right"), imported_from_rabbitmq(rabbitmq_hash("right"))):
        assert auth.hash("right", kept) == kept
        assert auth.hash("another", kept) != kept


def test_a_right_password_is_remembered_for_a_while_and_a_wrong_one_is_not() -> None:
    auth, clock = verifier(limits=VerifierLimits(remembered_s=10))
    user = UserRecord("u", auth.hash("right"))
    for seconds, verifications in ((0, 1), (9.9, 1), (19.8, 1), (29.8, 2)):  # each use counts anew
        clock.now = seconds
        assert answer(verify(auth, user, b"right")) is True
        assert len(auth.argon2_hashes) == verifications
    for _ in range(2):
        answer(verify(auth, user, b"wrong"))
    assert len(auth.argon2_hashes) == 4
    assert not any(secret in repr(auth.__dict__) for secret in ("b'right", "'right"))


def test_a_changed_password_holds_at_once() -> None:
    auth, _ = verifier()
    assert answer(verify(auth, UserRecord("u", auth.hash("old")), b"old")) is True
    changed = UserRecord("u", auth.hash("new"))
    assert answer(verify(auth, changed, b"old")) is False
    assert answer(verify(auth, changed, b"new")) is True


def test_what_is_remembered_is_bounded() -> None:
    auth, _ = verifier(limits=VerifierLimits(remembered=3))
    users = [UserRecord(f"u{number}", auth.hash("right")) for number in range(5)]
    for user in users:
        answer(verify(auth, user, b"right"))
    assert len(auth._remembered) == 3
    answer(verify(auth, users[-1], b"right"))
    assert len(auth.argon2_hashes) == 5
    answer(verify(auth, users[0], b"right"))
    assert len(auth.argon2_hashes) == 6


def test_log_ins_with_the_same_credentials_share_one_verification() -> None:
    held = Held()
    auth, _ = verifier(held)
    user = UserRecord("u", auth.hash("right"))
    pendings = [verify(auth, user, b"right") for _ in range(50)]
    assert len(held.waiting) == 1
    held.release()
    assert [answer(pending) for pending in pendings] == [True] * 50
    assert len(auth.argon2_hashes) == 1


BUSY = "the password was not checked, too many logins are waiting"


def test_a_flood_is_told_that_the_node_is_busy_and_not_at_once() -> None:
    held = Held()
    auth, later = verifier(held, VerifierLimits(busy_pause_s=1.0, queue=LoginLimits(waiting_per_user=2)))
    for number in range(3):  # one is checked, two wait
        verify(auth, None, b"%d" % number)
    refused = verify(auth, None, b"3")
    assert len(held.waiting) == 1 and auth.busy_total == 1
    later.advance(0.9)
    assert not refused.answered, "who is told at once comes back at once"
    later.advance(0.1)
    refusal = answer(refused)
    assert isinstance(refusal, ResourceExhausted) and refusal.text.startswith(BUSY)


def test_a_flood_does_not_keep_out_a_right_password_that_is_known_or_one_of_another_source() -> None:
    held = Held()
    auth, later = verifier(held, VerifierLimits(queue=LoginLimits(waiting=3)))
    known, other = UserRecord("known", auth.hash("right")), UserRecord("other", auth.hash("right"))
    verify(auth, known, b"right")
    held.release()
    flood = [verify(auth, None, b"%d" % number, "192.0.2.66") for number in range(10)]
    assert answer(verify(auth, known, b"right", "192.0.2.66")) is True, "known: even from where the flood comes from"
    from_elsewhere = verify(auth, other, b"right", "192.0.2.2")
    held.release()  # the one of the flood that was under way
    later.advance(1.0)
    for _ in range(2):
        if not from_elsewhere.answered:
            held.release()
            later.advance(1.0)
    assert answer(from_elsewhere) is True
    assert sum(one.answered for one in flood) >= 7, "the rest was told that the node is busy"


def test_256_users_who_log_in_at_once_all_get_in() -> None:
    held = Held()
    auth, _ = verifier(held)
    kept = auth.hash("right")
    pendings = [verify(auth, UserRecord(f"u{number}", kept), b"right") for number in range(256)]
    for _ in range(256):
        assert len(held.waiting) == 1, "one at a time"
        held.release()
    assert [answer(one) for one in pendings] == [True] * 256


def test_passwords_have_a_length() -> None:
    auth, _ = verifier()
    right = UserRecord("u", auth.hash(b"x" * PASSWORD_BYTES_MAX))
    checked = len(auth.argon2_hashes)
    assert answer(verify(auth, right, b"x" * (PASSWORD_BYTES_MAX + 1))) is False, (
        "what is cut off does not make it right"
    )
    assert len(auth.argon2_hashes) == checked + 1, (
        "it costs what any wrong one costs, and counts as a failure of its source"
    )
    with pytest.raises(PreconditionFailed, match="a password of 1025 bytes is longer than 1024"):
        auth.hash("x" * (PASSWORD_BYTES_MAX + 1))
    with pytest.raises(PreconditionFailed, match="a password cannot be empty"):
        auth.hash("")


def test_an_empty_password_is_never_right() -> None:
    auth, _ = verifier()
    assert answer(verify(auth, UserRecord("i", imported_from_rabbitmq(rabbitmq_hash(""))), b"")) is False


def test_a_verification_that_breaks_is_an_answer_without_secrets() -> None:
    class Breaking(Counting):
        def _matches(self, kept: str | None, password: bytes) -> bool:
            raise MemoryError(password)

    auth = Breaking(Inline(), lambda: 0.0, Later(), CHEAP)
    refusal = answer(verify(auth, None, b"secret"))
    assert isinstance(refusal, ResourceExhausted) and "secret" not in refusal.text


def test_hashes_go_into_definitions_and_come_back() -> None:
    hashed = verifier()[0].hash("right")
    assert Hashes().exported(hashed) == ("argon2id", hashed)
    assert Hashes().imported(*Hashes().exported(hashed)) == hashed


@pytest.mark.parametrize(
    ("algorithm", "password_hash"),
    [
        ("rabbit_password_hashing_md5", "x"),
        ("rabbit_password_hashing_crc", "x"),
        ("sha256", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"),
        ("argon2id", "nonsense"),
        ("argon2id", "$argon2i$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaA"),
        ("argon2id", "$argon2id$v=19$m=4000000,t=1,p=1$c2FsdHNhbHQ$aGFzaA"),
        ("argon2id", "$argon2id$v=19$m=8,t=99,p=1$c2FsdHNhbHQ$aGFzaA"),
    ],
)
def test_a_hash_that_is_unknown_or_would_cost_too_much_is_not_imported(algorithm: str, password_hash: str) -> None:
    with pytest.raises(PreconditionFailed):
        Hashes().imported(algorithm, password_hash)


def test_who_was_told_late_that_the_node_is_busy_makes_room_for_the_next() -> None:
    held = Held()
    auth, later = verifier(held, VerifierLimits(busy_max=1, busy_pause_s=1.0, queue=LoginLimits(waiting_per_user=1)))
    for number in range(2):  # one is checked, one waits
        verify(auth, None, b"%d" % number)
    first, beyond = verify(auth, None, b"2"), verify(auth, None, b"3")
    assert not first.answered and beyond.answered, "one is told late, and the next at once"
    later.advance(1.0)
    assert first.answered
    assert not verify(auth, None, b"4").answered, "again one is told late"


def test_a_login_that_gave_way_can_be_tried_again() -> None:
    held = Held()
    auth, later = verifier(held, VerifierLimits(busy_pause_s=1.0, queue=LoginLimits(waiting=2)))
    user = UserRecord("u", auth.hash("right"))
    verify(auth, None, b"0", "192.0.2.66")  # is checked
    gave_way = verify(auth, user, b"right", "192.0.2.66")
    verify(auth, None, b"1", "192.0.2.66")
    verify(auth, None, b"2", "192.0.2.2")
    later.advance(1.0)
    assert isinstance(answer(gave_way), ResourceExhausted)
    while held.waiting:
        held.release()
        later.advance(60.0)
    again = verify(auth, user, b"right", "192.0.2.66")
    while held.waiting:
        held.release()
    assert answer(again) is True


@pytest.mark.parametrize("cost", [CHEAP, HashCost()])
def test_the_hash_of_unknown_users_costs_a_whole_verification_and_matches_nothing(cost: HashCost) -> None:
    hashed = argon2.PasswordHasher(time_cost=cost.passes, memory_cost=cost.memory_kib, parallelism=cost.lanes).hash("x")
    unmatched = unmatched_hash(cost)
    assert argon2.extract_parameters(unmatched) == argon2.extract_parameters(hashed)
    assert len(unmatched) == len(hashed) and unmatched != unmatched_hash(cost)
    with pytest.raises(argon2.exceptions.VerifyMismatchError):  # rather than InvalidHashError, which costs nothing
        argon2.PasswordHasher().verify(unmatched, "x")
