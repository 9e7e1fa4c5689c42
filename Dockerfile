# The library with its command line, without a GPU: docker build -t rpmodels . && docker run -v "$PWD:/data" rpmodels fit ...
FROM python:3.11-slim

ENV PIP_NO_CACHE_DIR=1 MPLBACKEND=Agg
WORKDIR /opt/rpmodels
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN python -m pip install --constraint constraints.txt '.[fast,tables]'

RUN useradd --create-home somebody
USER somebody
WORKDIR /data
ENTRYPOINT ["rpmodels"]
CMD ["--help"]
