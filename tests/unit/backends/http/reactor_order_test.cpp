// Orders of senders and a stop that chance hardly ever brings about.
#include <atomic>

#include "backends/http/engine.hpp"
#include "tests/unit/backends/http/scripted_server.hpp"
#include "tests/unit/script.hpp"

#ifdef TIERFS_TEST_POINTS

namespace tierfs::http {
namespace reactor_order_test {

using namespace std::chrono_literals;

Request get(const std::string& url) {
    Request request;
    request.url = url;
    request.deadline = Clock::now() + 60s;
    return request;
}

TEST(ReactorOrder, ARequestOnItsWayToAStoppedReactorIsCancelledOnce) {
    test::ScriptedServer server([](const test::ReceivedRequest&) { return test::Reply{}; });
    Engine engine({});
    std::atomic<int> calls{0};
    std::atomic<Failure> failure{Failure::none};
    Script script;
    script.once("http.reactor.posting", [&] { engine.stop(); });  // admitted, and not yet handed over
    engine.send(get(server.url()), [&](Response response) {
        failure = response.failure;
        ++calls;
    });
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(failure, Failure::cancelled);
    EXPECT_EQ(server.count(), 0U);
}

TEST(ReactorOrder, ARequestThatComesWhileAReactorStopsIsCancelledOnce) {
    test::ScriptedServer server([](const test::ReceivedRequest&) { return test::Reply{}; });
    Engine engine({});
    std::atomic<int> calls{0}, timers{0};
    Script script;
    script.once("http.reactor.stopping", [&] {
        engine.send(get(server.url()), [&](Response response) {
            EXPECT_EQ(response.failure, Failure::cancelled);
            ++calls;
        });
        engine.at(Clock::now() + 1h, [&](bool cancelled) {
            EXPECT_TRUE(cancelled);
            ++timers;
        });
    });
    engine.stop();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(timers, 1);
}

}  // namespace reactor_order_test

#endif

}  // namespace reactor_order_test
