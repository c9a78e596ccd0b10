# SPDX-License-Identifier: Apache-2.0
import pytest

from tests.support import converter
from tests.support.litert import Litert


@pytest.fixture(scope="session")
def litert():
    """One LiteRT child for all tests of a pytest worker."""
    with Litert(time_limit=60.0) as runtime:
        yield runtime


@pytest.fixture(scope="session")
def lowtide():
    try:
        return converter.program()
    except FileNotFoundError as error:
        pytest.fail(str(error))
