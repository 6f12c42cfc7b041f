/* cli/commit.h — which source the program was built from. */
#ifndef CLI_COMMIT_H
#define CLI_COMMIT_H

/* The commit's first 12 digits, with "-dirty" behind them where sources differed from it; "unknown"
 * where the source was not under git. */
const char *build_commit(void);

#endif
