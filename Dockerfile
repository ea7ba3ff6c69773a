# One image for every party: `docker build -t laconic-fl .`. What a party does is its command; see docker/compose.yaml.
# Built in two stages, so that no compiler is in the image that runs. Everything from outside comes by hash (locks/).
FROM python:3.11-slim AS build
# Debian keeps one version of a package: a pinned one is gone with its next update. The compiler stays in this stage.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY locks ./locks
COPY constraints.txt ./
RUN python -m venv /opt/laconic
ENV PATH=/opt/laconic/bin:$PATH
# The build without a GPU, where pip finds it: name PyTorch's own index by `--build-arg PIP_EXTRA_INDEX_URL=...`. The hash
# decides whether it is the file that the tests ran with.
ARG PIP_EXTRA_INDEX_URL
RUN pip install --no-cache-dir --require-hashes --no-deps -r locks/torch-cpu.txt \
    || pip install --no-cache-dir --require-hashes --no-deps -r locks/torch.txt
RUN pip install --no-cache-dir --require-hashes --no-deps -r locks/core.txt
COPY pyproject.toml README.md LICENSE ./
COPY laconic ./laconic
RUN pip install --no-cache-dir --no-build-isolation '.[envelopes,flare,psi,serve]' -c constraints.txt

FROM python:3.11-slim
COPY --from=build /opt/laconic /opt/laconic
ENV PATH=/opt/laconic/bin:$PATH
# Sites hold keys and rows: they are mounted, never copied in, and belong to this user.
RUN useradd --create-home --uid 10001 laconic
USER 10001
WORKDIR /home/laconic
ENTRYPOINT ["laconic"]
CMD ["demo"]
