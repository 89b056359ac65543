"""The check as a whole, on every carrier: it passes where all is right, and only there."""

import unittest
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.distributed.ranks import PACKAGE, Ended, crashed_as_known, mpirun, run_ranks

CARRIERS = ("libucc", "mpi", "gloo")
CHECK = f"{PACKAGE}.allreduce_check"
ONE_SIZE = ("--quick", "--max-bytes", "2KiB")
SHORT = ("--deadline", "6")


class RightTest(unittest.TestCase):
    def assert_passed(self, ended: Ended, carrier: str, size: int) -> None:
        self.assertEqual(ended.status, 0, ended.errors[-3000:])
        [summary] = ended.of("summary")
        self.assertTrue(summary["passed"])
        self.assertEqual(summary["carrier"], carrier)
        self.assertEqual(summary["num_cases"], len(ended.of("case")))
        self.assertEqual([rank["rank"] for rank in ended.of("rank")], list(range(size)))
        self.assertEqual([case for case in ended.of("case") if not case["correct"]], [])

    def test_every_carrier_passes_under_mpirun(self) -> None:
        for carrier in CARRIERS:
            with self.subTest(carrier):
                ended = mpirun(2, [CHECK, "--carrier", carrier, "--max-bytes", "4MiB"])
                self.assert_passed(ended, carrier, 2)

    def test_every_carrier_passes_with_four_ranks_and_their_teams(self) -> None:
        for carrier in CARRIERS:
            with self.subTest(carrier):
                ended = mpirun(4, [CHECK, "--carrier", carrier, *ONE_SIZE])
                self.assert_passed(ended, carrier, 4)
                teams = {case["team"] for case in ended.of("case")}
                self.assertEqual(teams, {"world", "reversed", "single", "odd", "every-second"})

    def test_libucc_and_gloo_pass_without_mpirun(self) -> None:
        for carrier in ("libucc", "gloo"):
            with self.subTest(carrier):
                ended = run_ranks(2, [CHECK, "--carrier", carrier, *ONE_SIZE])
                self.assertEqual([each.status for each in ended], [0, 0], ended[1].errors)
                self.assert_passed(ended[0], carrier, 2)
                self.assertEqual(ended[1].events, [])  # only rank 0 speaks the protocol

    def test_ranks_say_where_their_numbers_come_from(self) -> None:
        ended = run_ranks(2, [CHECK, "--carrier", "libucc", *ONE_SIZE])[0]
        for rank in ended.of("rank"):
            self.assertEqual(rank["pod"], f"pod-{rank['rank']}")
            self.assertRegex(rank["versions"]["ucc"], r"^\d+\.\d+")
            self.assertRegex(rank["versions"]["ucx"], r"^\d+\.\d+")
            self.assertRegex(rank["versions"]["torch"], r"^\d+\.\d+")
            self.assertTrue(rank["origins"]["ucc"])
            self.assertEqual(rank["settings"]["UCC_TLS"], "ucp,self")
            self.assertEqual(rank["settings"]["ucc.conf"], "none")


class WrongTest(unittest.TestCase):
    def test_wrong_contributions_and_results_are_found(self) -> None:
        everywhere = ["wrong-sum"]
        faults = ["wrong-sum", "doubled", "dropped", "shifted", "wrong-result"]
        for carrier in CARRIERS:
            for fault in faults if carrier == "libucc" else everywhere:
                with self.subTest(f"{carrier}, {fault}"):
                    ended = mpirun(2, [CHECK, "--carrier", carrier, *ONE_SIZE, "--fault", fault])
                    self.assertNotEqual(ended.status, 0)
                    wrong = [
                        case
                        for case in ended.of("case")
                        if not case["correct"] and case["team"] == "world"
                    ]
                    sums = [
                        case
                        for case in ended.of("case")
                        if case["op"] == "sum"
                        and case["num_elements"] > 8
                        and case["team"] == "world"
                    ]
                    self.assertTrue(sums)
                    self.assertEqual([case for case in sums if case["correct"]], [])
                    for case in wrong:
                        self.assertGreater(case["num_wrong_elements"], 0)
                        self.assertIn("index", case["first_wrong"])
                    for summary in ended.of("summary"):
                        self.assertFalse(summary["passed"])

    def test_one_wrong_element_is_counted_as_one_on_each_rank(self) -> None:
        ended = mpirun(2, [CHECK, "--carrier", "libucc", *ONE_SIZE, "--fault", "wrong-sum"])
        [case, *_] = [
            case
            for case in ended.of("case")
            if case["op"] == "sum" and case["num_elements"] > 8 and case["team"] == "world"
        ]
        self.assertEqual(case["num_wrong_elements"], 2 * case["iterations"])
        self.assertEqual(case["first_wrong"]["index"], case["num_elements"] // 2)


class EndTest(unittest.TestCase):
    def assert_all_refused(self, ended: list[Ended], sentence: str) -> None:
        for rank, each in enumerate(ended):
            self.assertNotEqual(each.status, 0, f"rank {rank}")
            said = each.of("failure")[0]["message"] if rank == 0 else each.errors
            self.assertIn(sentence, said)
        self.assertEqual(ended[0].of("case"), [])

    def test_a_setting_that_differs_stops_every_rank_before_the_first_collective(self) -> None:
        for carrier in ("libucc", "gloo"):
            with self.subTest(carrier):
                ended = run_ranks(
                    3,
                    [CHECK, "--carrier", carrier, *ONE_SIZE],
                    {2: {"UCX_TLS": "tcp,self,sm"}},
                )
                self.assert_all_refused(
                    ended,
                    "rank 0 (pod pod-0) and 1 more has UCX_TLS=tcp,self, rank 2 (pod pod-2) has "
                    "UCX_TLS=tcp,self,sm; set it identically in the job.",
                )
                self.assertEqual(ended[0].of("failure")[0]["stage"], "agreement")

    def test_the_fault_settings_stops_the_job_under_mpirun(self) -> None:
        ended = mpirun(2, [CHECK, "--carrier", "mpi", *ONE_SIZE, "--fault", "settings"])
        self.assertNotEqual(ended.status, 0)
        self.assertIn("UCC_CROSSVENDOR_FAULT=1", ended.of("failure")[0]["message"])
        self.assertEqual(ended.of("case"), [])

    def test_a_hung_collective_ends_with_a_failure_by_its_deadline(self) -> None:
        commands = [
            [CHECK, "--carrier", carrier, *ONE_SIZE, *SHORT, "--fault", "hang"]
            for carrier in CARRIERS
        ]
        with ThreadPoolExecutor() as pool:  # all of it is waiting
            ends = list(pool.map(partial(mpirun, 2), commands))
        for carrier, ended in zip(CARRIERS, ends, strict=True):
            with self.subTest(carrier):
                self.assertNotEqual(ended.status, 0)
                [failure, *_] = ended.of("failure")
                self.assertEqual(failure["stage"], "case")
                self.assertEqual(ended.of("summary"), [])

    def test_a_killed_rank_ends_the_others(self) -> None:
        for carrier in ("libucc", "gloo"):
            with self.subTest(carrier):
                ended = run_ranks(
                    3, [CHECK, "--carrier", carrier, *ONE_SIZE, *SHORT, "--fault", "die"]
                )
                self.assertNotIn(0, [each.status for each in ended])
                if carrier == "libucc":
                    [first, *_] = ended[0].of("rank")
                    if crashed_as_known(ended[0], first["versions"]["ucc"]):
                        continue
                self.assertTrue(ended[0].of("failure"))

    def test_a_rank_that_never_starts_is_named(self) -> None:
        missing = {1: {"RANK": ""}}
        ended = run_ranks(2, [CHECK, "--carrier", "gloo", *ONE_SIZE, *SHORT], missing)
        self.assertEqual(ended[1].status, 2)
        self.assertNotEqual(ended[0].status, 0)
        [failure] = ended[0].of("failure")
        self.assertTrue(failure["message"].startswith("rank 1 said nothing"), failure)

    def test_mpi_without_mpirun_is_refused(self) -> None:
        ended = run_ranks(2, [CHECK, "--carrier", "mpi", *ONE_SIZE])
        self.assert_all_refused(ended, "mpi: started by torchrun; the mpi carrier needs mpirun.")


if __name__ == "__main__":
    unittest.main()
