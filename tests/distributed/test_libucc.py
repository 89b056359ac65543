"""The backend on two and three processes; what each rank does is in bodies.py."""

import importlib
import signal
import unittest

from tests.distributed.ranks import PACKAGE, Ended, crashed_as_known, run_body

SHORT = {"TEST_TIMEOUT": "2"}


class LibuccTest(unittest.TestCase):
    def run_on(self, size: int, name: str) -> None:
        for rank, ended in enumerate(run_body(size, name)):
            self.assertEqual(ended.status, 0, f"rank {rank}: {ended.errors}")
            self.assertIn(f"rank {rank} ended well", ended.output)

    def run_short(self, size: int, name: str) -> list[Ended]:
        return run_body(size, name, dict.fromkeys(range(size), SHORT))

    def test_every_operation_of_every_type_is_right(self) -> None:
        self.run_on(3, "every_operation_of_every_type_is_right")

    def test_out_of_place_leaves_the_input(self) -> None:
        self.run_on(3, "out_of_place_leaves_the_input")

    def test_gathers_and_broadcasts_move_every_type(self) -> None:
        self.run_on(3, "gathers_and_broadcasts_move_every_type")

    def test_empty_tensors_are_carried(self) -> None:
        self.run_on(2, "empty_tensors_are_carried")

    def test_teams_of_any_ranks_in_any_order_work(self) -> None:
        self.run_on(3, "teams_of_any_ranks_in_any_order_work")

    def test_many_collectives_are_in_flight_at_once(self) -> None:
        self.run_on(2, "many_collectives_are_in_flight_at_once")

    def test_futures_run_python_callbacks(self) -> None:
        self.run_on(2, "futures_run_python_callbacks")

    def test_collectives_go_on_while_python_computes(self) -> None:
        self.run_on(2, "collectives_go_on_while_python_computes")

    def test_a_team_can_be_made_while_a_collective_waits(self) -> None:
        self.run_on(2, "a_team_can_be_made_while_a_collective_waits")

    def test_ddp_gives_the_gradients_of_gloo_on_every_rank_alike(self) -> None:
        self.run_on(2, "ddp_gives_the_gradients_of_gloo")

    def test_what_cannot_be_carried_is_refused(self) -> None:
        self.run_on(2, "what_cannot_be_carried_is_refused")

    def test_groups_can_be_destroyed_and_made_again(self) -> None:
        self.run_on(2, "groups_can_be_destroyed_and_made_again")

    def test_an_exit_without_goodbye_is_clean(self) -> None:
        self.run_on(2, "an_exit_without_goodbye_is_clean")

    def test_an_idle_group_leaves_the_processor_alone(self) -> None:
        self.run_on(2, "an_idle_group_leaves_the_processor_alone")

    def test_the_tables_of_the_check_find_what_is_wrong(self) -> None:
        self.run_on(2, "the_tables_of_the_check_find_what_is_wrong")

    def test_a_rank_that_stays_away_is_an_error_in_time(self) -> None:
        ended = self.run_short(3, "a_rank_that_stays_away_is_an_error_in_time")
        for rank in (0, 2):
            self.assertEqual(ended[rank].status, 0, ended[rank].errors)

    def test_a_killed_peer_ends_the_others(self) -> None:
        ended = self.run_short(3, "a_killed_peer_ends_the_others")
        self.assertEqual(ended[1].status, -signal.SIGKILL)
        ucc = importlib.import_module(f"{PACKAGE}.libucc").versions()["ucc"]
        for rank in (0, 2):
            if not crashed_as_known(ended[rank], ucc):
                self.assertEqual(ended[rank].status, 0, ended[rank].errors)


class IdentityTest(unittest.TestCase):
    """UCC takes processes of one machine with equal numbers for one, as containers often have."""

    def distinct(self, *identities: tuple[int, int, int]) -> list[int]:
        module = importlib.import_module(f"{PACKAGE}.libucc")
        numbers: list[int] = module._libucc.distinct_contexts([list(each) for each in identities])
        return numbers

    def test_different_processes_keep_their_numbers(self) -> None:
        self.assertEqual(self.distinct((46, 0, 0), (47, 0, 0), (48, 2, 0)), [0, 0, 2])

    def test_equal_processes_take_different_numbers(self) -> None:
        self.assertEqual(self.distinct((46, 0, 0), (46, 0, 0), (46, 0, 0)), [0, 1, 2])

    def test_nobody_takes_the_number_of_a_context_that_exists(self) -> None:
        self.assertEqual(self.distinct((46, 0, 0), (46, 0, 1), (46, 1, 1)), [2, 0, 1])

    def test_a_number_that_others_moved_to_is_taken_too(self) -> None:
        self.assertEqual(self.distinct((46, 0, 0), (46, 0, 0), (46, 1, 0)), [0, 1, 2])


if __name__ == "__main__":
    unittest.main()
