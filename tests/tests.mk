# The test programs, the checks that go beyond them, and measurements.

.PHONY: test-programs check-rest check-ranks check-matrix asan fuzz fuzz-programs mutants torture coverage
.PHONY: bench bench-infer infer-peers torch check-originals check-pytorch check-notebooks check-export check-c check-training

# tests/ mirrors the rooms; support, originals and peer hold no programs of their own.
TESTS    := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/*/test_*.c) tests/quant/conformance.c)
FUZZERS  := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
TRAINING := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/originals/training/*_mnist.c))

test-programs: $(TESTS) $(TRAINING) $(BUILD)/tests/own_net
# What tests compute themselves is little: -O3 costs more than it saves.
$(BUILD)/tests/%.o: override CFLAGS := $(patsubst -O3,-O1,$(CFLAGS))
# An archive, so that each test links only what it uses.
$(BUILD)/tests/support.a: $(call objects,$(wildcard tests/support/*.c))
	$(archive)
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/tests/support.a $(BUILD)/libqgrad.a
	$(call say,LINK)$(CC) $(CFLAGS) $(LDFLAGS) $(LDFLAGS_$(@F)) -o $@ $(filter %.o,$^) $(filter %.a,$^) -lcmocka -lcjson $(LIBS) -lz

# Tests of the engine link nothing else of the library, so they can be cross-compiled alone.  For systems without cmocka:
# CPPFLAGS=-Itests/support/small CMOCKA=
CMOCKA := -lcmocka
$(BUILD)/tests/infer/%: $(BUILD)/tests/infer/%.o $(patsubst %,$(BUILD)/tests/support/%.o,environment packed) $(BUILD)/libqgrad_infer.a
	$(link) $(CMOCKA) -lm
# So can the test of exp, log, ..
$(BUILD)/tests/core/test_functions: $(BUILD)/tests/core/test_functions.o $(BUILD)/libqgrad.a
	$(link) $(CMOCKA) -lm

# Functions of libraries that a test replaces: of the heap, tests/support/heap.h.
wrap = $(foreach f,$1,-Wl,--wrap=$(f))
HEAP := $(call wrap,malloc calloc realloc aligned_alloc posix_memalign strdup)
$(foreach test,heap exhausted config fit_heap tune,$(eval LDFLAGS_test_$(test) := $(HEAP)))
# These contain the program and set its clock (tests/support/clock.h).
CLOCKED := $(addprefix test_,cli_train cli_tune cli_resume cli_moved cli_schemes cli_data cli_validation bench)
$(foreach test,$(CLOCKED) test_fit_heap,$(eval LDFLAGS_$(test) += $(call wrap,clock_gettime)))
LDFLAGS_test_cli_train   += $(call wrap,flock renameat write fsync qg__file_read_in qg__whiten_fit qg__whiten)
LDFLAGS_test_cli_moved   += $(call wrap,open openat renameat fsync flock mkdir)
LDFLAGS_test_files       := $(call wrap,qg__memory)
LDFLAGS_test_writers     := $(call wrap,fsync)
LDFLAGS_test_safetensors := $(call wrap,qg__reader_take)
LDFLAGS_test_file        := $(call wrap,renameat fsync)
$(patsubst %,$(BUILD)/tests/cli/%,test_config test_svg test_columns test_scaling $(CLOCKED)): $(CLI_OBJ)
$(patsubst %,$(BUILD)/tests/cli/%,test_scaling $(CLOCKED)): $(BENCH_OBJ)
$(TRAINING): $(BUILD)/tests/originals/training/steps.o
ifneq (,$(filter avx2,$(ISAS)))
$(BUILD)/tests/core/test_fma: $(BUILD)/tests/support/fma_kernel.sixteen.o
$(BUILD)/tests/core/test_conv_kernel: $(patsubst %,$(BUILD)/core/kernels/%.sixteen.o,conv_kernel winograd_kernel)
$(BUILD)/tests/core/test_dense_kernel: $(BUILD)/core/kernels/dense_kernel.sixteen.o
$(BUILD)/tests/core/test_depthwise_kernel: $(BUILD)/core/kernels/depthwise_kernel.sixteen.o
$(BUILD)/tests/infer/test_kernels: $(patsubst %.c,$(BUILD)/%.sixteen.o,$(wildcard infer/kernels/*_kernel.c))
$(BUILD)/tests/infer/test_correlate: $(BUILD)/infer/kernels/correlate_kernel.sixteen.o
endif

check-rest:   ## make check without make test
	+@$(MAKE) --no-print-directory deps CHECK=1
	+@ROWS="every clang asan avx2 baseline memcheck musl aarch64 python api other" sh tests/matrix.sh $(BUILD)
	+@$(MAKE) --no-print-directory check-ranks
	+@$(SUB) fuzz SECONDS=60
	+@$(SUB) torture WERROR=-Werror TRIALS=100
	@sh tests/page.sh $(BUILD)
	+@$(SUB) check-pytorch
	+@$(SUB) check-notebooks
	+@[ ! -x $(ORIGINALS)/bin/python3 ] || $(SUB) check-originals

check-matrix:   ## the tests under every compiler, sanitizer, instruction set, user and locale, most of an hour; ROWS="tsan nobody" selects
	+@$(MAKE) --no-print-directory deps CHECK=1
	+@ROWS="$(ROWS)" sh tests/matrix.sh $(BUILD)

# The address sanitizer's build has other bits, and its leaks would be those inside libmpi.
# The undefined-behaviour sanitizer lacks casts of floats that no integer holds.
SANITIZERS := -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=undefined,float-cast-overflow -fno-omit-frame-pointer
ASAN_BUILD  = BUILD=$(BUILD)/asan SANITIZE="$(SANITIZERS)" CFLAGS="-O1 -g1"
check-ranks:   ## trainings on several ranks, also under the address sanitizer (tests/ranks.sh)
	+@if pkg-config --exists mpi-c && command -v mpirun >/dev/null; then \
		$(MAKE) --no-print-directory all mpi && QGRAD=$(BUILD)/qgrad QGRAD_MPI=$(BUILD)/qgrad-mpi sh tests/ranks.sh && \
		$(MAKE) --no-print-directory $(ASAN_BUILD) mpi && \
		ASAN_OPTIONS=detect_leaks=0 QGRAD=$(BUILD)/asan/qgrad-mpi QGRAD_MPI=$(BUILD)/asan/qgrad-mpi sh tests/ranks.sh; \
	else echo "MPI is not installed: trainings on several ranks were not tested (make deps CHECK=1 installs it)"; fi

asan: deps   ## make test under the address and undefined-behaviour sanitizers
	+@$(SUB) $(ASAN_BUILD) test

mutants: deps   ## each patch of tests/mutants makes a mistake that the tests must notice
	@sh tests/mutants.sh

coverage: deps   ## the share of lines and branches that the tests reach, per room
	+@$(SUB) BUILD=$(BUILD)/coverage SANITIZE=--coverage CFLAGS="-O2 -g1" test; passed=$$?; \
	sh tests/coverage.sh $(BUILD)/coverage && exit $$passed

# TRIALS=100 limits each kind of fault to 100 trials, which SEED selects; ROUNDS="io kill" selects the kinds.  Needs glibc.
TORTURE := $(patsubst %,$(BUILD)/tests/torture/%,torture faults.so)
TRIALS  ?= 0
SEED    ?= 1
torture: deps   ## trainings whose calls fail, that are killed, and whose files are damaged, end in the same bytes (tests/torture)
	+@$(SUB) $(BUILD)/qgrad $(BUILD)/qgrad-results $(TORTURE)
	@$(BUILD)/tests/torture/torture -n $(TRIALS) -s $(SEED) $(BUILD)/qgrad $(BUILD)/tests/torture/faults.so $(ROUNDS)
$(BUILD)/tests/torture/torture: $(patsubst %,$(BUILD)/tests/torture/%.o,subjects trees)
$(BUILD)/tests/torture/faults.so: $(BUILD)/tests/torture/faults.o
	$(call say,LINK)$(CC) $(CFLAGS) $(filter-out -pie,$(LDFLAGS)) -shared -o $@ $^ -ldl

# RUNS=100000 runs each target that often instead of for its share of SECONDS, TARGET=json only that one (docs/extending.md).
SECONDS ?= 170
# libFuzzer is not told of comparisons, which takes half of the time in loops over tensors: the seeds have what readers look for.
FUZZ_CFLAGS := -O1 -g1 -fsanitize=fuzzer-no-link -fno-sanitize-coverage=trace-cmp
fuzz:   ## each target of tests/fuzz/ with libFuzzer and the sanitizers, for SECONDS in all
	@sh packaging/deps.sh fuzz || { echo "make fuzz needs clang with libFuzzer and the sanitizers; make deps CHECK=1 installs them"; exit 1; }
	+@$(SUB) BUILD=$(BUILD)/fuzz FUZZING=1 CC=clang SANITIZE="$(SANITIZERS)" CFLAGS="$(FUZZ_CFLAGS)" fuzz-programs
	@sh tests/fuzz/run.sh $(BUILD)/fuzz "$(SECONDS)" "$(RUNS)" "$(TARGET)"
fuzz-programs: $(FUZZERS)

# make test runs all targets of tests/fuzz/ in one program; in the programs of `make fuzz` each keeps its name.
FUZZ_OBJ := $(FUZZERS:%=%.o)
$(FUZZ_OBJ): override CPPFLAGS += $(if $(FUZZING),,-DLLVMFuzzerTestOneInput=$(basename $(@F)))
$(BUILD)/tests/fuzz/test_fuzz.o: tests/fuzz    # which changes with each target
$(BUILD)/tests/fuzz/test_fuzz.o: override CPPFLAGS += -D'FUZZ_TARGETS=$(FUZZERS:$(BUILD)/tests/fuzz/fuzz_%=X(%))'
$(BUILD)/tests/fuzz/test_fuzz: $(FUZZ_OBJ)
$(BUILD)/tests/fuzz/test_fuzz $(FUZZERS): $(patsubst %,$(BUILD)/tests/fuzz/%.o,fuzz loading nets pictures) $(CLI_OBJ)
$(foreach target,$(notdir $(FUZZERS)),$(eval LDFLAGS_$(target) := -fsanitize=fuzzer))

# Beside PyTorch: Debian's if PYTHON has it (python3-torch), and the current release if it is installed.
PYTHON  ?= /usr/bin/python3
CURRENT  = $(firstword $(wildcard $(BUILD)/torch/bin/python3 $(BUILD)/originals/bin/python3) $(BUILD)/torch/bin/python3)
bench: deps   ## the speed of training, 45 minutes on an idle machine; BENCH="--rows LeNet --rounds 1" is quicker
	+@$(SUB) all
	@$(PYTHON) tests/bench.py --peer $(PYTHON) --peer $(CURRENT) --qgrad $(BUILD)/qgrad --out $(BUILD)/bench.md $(BENCH)
bench-infer: deps   ## the speed of the engine, ten minutes, beside others if make infer-peers has installed them
	+@$(SUB) all
	@$(PYTHON) tests/bench_infer.py --peer $(BUILD)/infer-peers/bin/python3 --qgrad $(BUILD)/qgrad --out $(BUILD)/bench-infer.md $(BENCH)
torch:         ## the current PyTorch in a Python environment of several gigabytes
infer-peers:   ## the same with ONNX Runtime
torch infer-peers:
	@$(PYTHON) -m venv $(BUILD)/$@ && $(BUILD)/$@/bin/pip install --quiet torch numpy $(if $(findstring infer,$@),onnxruntime onnx)

# ORIGINALS=DIR is a Python environment, else one of several gigabytes is made.  COMPARE="--write results/exactness.md" writes the page.
ORIGINALS        ?= $(BUILD)/originals
ORIGINALS_PYTHON ?= python3
check-originals: deps   ## compares each operator with the implementation it is named after (docs/exactness.md)
	+@$(SUB) $(BUILD)/libqgrad_flat.so
	@PYTHON="$(ORIGINALS_PYTHON)" sh tests/originals/run.sh $(ORIGINALS) $(BUILD)/libqgrad_flat.so $(COMPARE)
$(BUILD)/libqgrad_flat.so: $(LIB_OBJ) $(CLI_OBJ) $(BUILD)/tests/originals/flat.o
	$(call say,LINK)$(CC) $(CFLAGS) $(filter-out -pie,$(LDFLAGS)) -shared -o $@ $^ $(LIBS)

check-pytorch: deps   ## imports nets of PyTorch and compares their scores; needs python3-torch, and safetensors from pip
	+@$(SUB) all
	@sh tests/pytorch/run.sh $(BUILD)/pytorch $(BUILD)

# NOTEBOOKS=--write stores what they print.
check-notebooks: deps   ## executes the notebooks of examples/ and compares what they print with what they have stored
	+@$(SUB) $(BUILD)/libqgrad.so.$(VERSION)
	@$(PYTHON) tests/notebooks.py $(BUILD) $(NOTEBOOKS)

check-export: data   ## nets of every scheme and model in ONNX Runtime, natively and in WASM (docs/export.md)
	+@$(SUB) $(BUILD)/tests/export/nets $(SHARED_LIBRARIES)
	@sh tests/export/run.sh $(BUILD) $(IMAGES)

check-c: data   ## nets in C on other compilers and machines compute what the engine computes (docs/plain-c.md)
	+@$(SUB) $(BUILD)/qgrad $(BUILD)/libqgrad_infer.a $(BUILD)/tests/layers/test_export_c
	@sh tests/export/c.sh $(BUILD)
	@QGRAD_EVERY=1 $(BUILD)/tests/layers/test_export_c

SEEDS ?= 5
check-training: data   ## compares the first losses of Larq's and Brevitas' MNIST examples; needs the environment of check-originals
	+@$(SUB) $(TRAINING)
	@sh tests/originals/training/run.sh $(ORIGINALS)/bin/python3 $(BUILD)/tests/originals/training $(SEEDS)
