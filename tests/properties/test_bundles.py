"""Several targets from one read: prediction equals walk equals what is counted on real files."""

from hypothesis import given

from dask_io.planning import Bundle, Plan
from dask_io.testing import Walked, walk, walk_bundle
from dask_io.testing.strategies import bundles, plans


def check_prediction(bundle: Bundle, walked: Walked) -> None:
    """Compare what a bundle says with what walking it counted."""
    assert walked.seeks == bundle.seeks
    assert walked.openings == bundle.openings
    assert walked.n_steps == bundle.n_steps
    assert walked.read_bytes == bundle.n_bytes_read
    assert walked.written_bytes == bundle.n_bytes_written
    assert walked.held_bytes == bundle.held_bytes
    assert walked.peak_bytes == bundle.peak_bytes
    assert walked.array_is_rebuilt


@given(bundle=bundles())
def test_a_bundle_costs_what_it_says(bundle: Bundle) -> None:
    """The costs of any bundle are those of an element-wise walk of its sweep."""
    check_prediction(bundle, walk_bundle(bundle))


@given(plan=plans(max_axes=4, windows=True))
def test_a_plan_is_a_bundle_of_one(plan: Plan) -> None:
    """A bundle of one plan costs what the plan costs, and walks the same way."""
    bundle = Bundle.of(plan)

    walked = walk_bundle(bundle)

    assert walked == walk(plan)
    check_prediction(bundle, walked)
