// A script of sync points whose waits that take too long fail the test.
#pragma once

#include <gtest/gtest.h>

#include "config/base/sync_point.hpp"

namespace tierfs {

#ifdef TIERFS_TEST_POINTS

/// Declare it after what its callbacks use, and before the threads that it orders are joined.
class Script : public SyncScript {
  public:
    using SyncScript::SyncScript;
    ~Script() {
        for (const std::string& failure : failures()) ADD_FAILURE() << failure;
    }
};

#endif

}  // namespace tierfs
