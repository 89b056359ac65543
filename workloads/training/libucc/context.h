// The UCC library and one context of it, with no torch in sight.
//
// The context is local: it is made without talking to anybody, and addresses are exchanged when a
// team is made. So one context (one set of connections, one thread that drives them) serves every
// process group of the process, whichever ranks it has, and none waits for a peer when it ends.
#pragma once

#include <ucc/api/ucc.h>

#include <functional>
#include <string>
#include <vector>

namespace crossvendor {

// Throws std::runtime_error "libucc: <what>: <UCC's words for the status>." on an error status.
void check(ucc_status_t status, const std::string& what);

// Everything here belongs to the thread that made it: UCC runs in its single-threaded mode, which
// also works over a UCX that was built without thread support.
class Context {
 public:
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // UCC knows a process by its machine, its number and how many contexts it made before this one.
  // Containers on one machine often have equal numbers, each in a namespace of its own, and UCC
  // then refuses the team ("proc info collision"). Before its first context a process learns who
  // else will be in the team, and skips as many contexts as it takes to be somebody else.
  static void stand_apart(int rank,
                          const std::function<std::string(const std::string& mine)>& allgather);

  ucc_context_h handle() const { return context_; }
  void progress() { ucc_context_progress(context_); }

  // After a failed collective UCC may still hold requests and buffers: leave all to the process's
  // end, because taking it down could wait for a dead peer for ever.
  void abandon() { is_abandoned_ = true; }

 private:
  ucc_lib_h library_ = nullptr;
  ucc_context_h context_ = nullptr;
  bool is_abandoned_ = false;
};

// What UCC tells processes of one machine apart by.
struct Identity {
  int64_t process;
  int64_t context;   // how many contexts the process made before the one it has or will have
  int64_t is_final;  // 1: it has that context already
};

// The context number for `rank` among the identities of all ranks: its own, or the first after it
// that makes it differ from the others. Every rank comes to the same answer for each.
int64_t distinct_context(const std::vector<Identity>& identities, int rank);

std::string ucc_version();
// Version of the UCX that is loaded in this process, "" when there is none.
std::string ucx_version();
// Files that the two were loaded from, "" when not loaded.
std::string ucc_path();
std::string ucx_path();

}  // namespace crossvendor
