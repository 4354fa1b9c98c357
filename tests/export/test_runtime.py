"""What export does without an ONNX runtime."""

import subprocess
import sys

from fleetledger.runtime.pip_command import pip_install

CODE = """
import sys
sys.modules["onnxruntime"] = None
from fleetledger.export.errors import RuntimeMissingError
from fleetledger.export.runtime import describe_runtime
try:
    describe_runtime()
except RuntimeMissingError as error:
    print(error)
"""


def test_a_missing_runtime_is_a_sentence_with_the_command_that_mends_it() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (f"onnxruntime: not installed; run `{pip_install('cpu')}`")


def test_importing_export_loads_no_runtime() -> None:
    code = "import sys; from fleetledger.export import backbone, package;"
    code += "print('onnxruntime' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
