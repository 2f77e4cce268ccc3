#!/usr/bin/env bash
# Checks NCCL groups on a machine with one NVIDIA GPU, without Ray, within five minutes.
#
# Uses $PYTHON (default python3) as it is if torch with CUDA and cupy's NCCL can be imported; otherwise
# installs them into a virtual environment of its own on top of it. The last line of the output is one
# JSON object. Arguments go to the program: `tests/gpu/run.sh --backend gloo` is a dry run on the CPU.
set -euo pipefail
cd "$(dirname "$0")/../.."

PYTHON="${PYTHON:-python3}"
VENV="${RAYTIDE_GPU_VENV:-${TMPDIR:-/tmp}/raytide-gpu-venv}"
export PYTHONPATH="tests:platform${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONDONTWRITEBYTECODE=1

can_import() { "$PYTHON" -c "$1" >/dev/null 2>&1; }
HAVE_TORCH='import torch; assert torch.cuda.is_available()'
HAVE_CUPY='import torch; from cupy.cuda import nccl; assert nccl.available and isinstance(nccl.get_unique_id(), bytes)'

install() {
  echo "installing: $*"
  timeout 150 "$PYTHON" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 15 "$@" \
    || echo "could not install $* (no network?); going on with what can be imported"
}

driver_cuda_major() { nvidia-smi | sed -n 's/.*CUDA Version: *\([0-9]*\).*/\1/p' | head -n 1; }

torch_cuda_major() { "$PYTHON" -c 'import torch; print(torch.version.cuda.split(".")[0])'; }

install_what_is_missing() {
  [[ -x "$VENV/bin/python" ]] || "$PYTHON" -m venv --system-site-packages "$VENV"
  PYTHON="$VENV/bin/python"
  if ! can_import "$HAVE_TORCH"; then
    if [[ "$(driver_cuda_major)" == 12 ]]; then
      install torch numpy --extra-index-url https://download.pytorch.org/whl/cu126
    else
      install torch numpy
    fi
  fi
  # cupy must be of the CUDA version that torch brings, because both share one NCCL library.
  if can_import "$HAVE_TORCH" && ! can_import "$HAVE_CUPY"; then
    install "cupy-cuda$(torch_cuda_major)x>=14"
  fi
}

if [[ " $* " != *" gloo "* && " $* " != *"=gloo "* ]]; then
  if nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader; then
    { can_import "$HAVE_TORCH" && can_import "$HAVE_CUPY"; } || install_what_is_missing
  else
    echo "this machine has no NVIDIA GPU, or no driver"
  fi
fi

exec "$PYTHON" -m gpu.check "$@"
