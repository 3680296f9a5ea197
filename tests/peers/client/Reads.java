// What the Java client of KairosDB reads from a server, a line each. usage: java Reads.java URL METRIC START END
// Times are in milliseconds. No line depends on which server answers.

import java.util.Date;
import java.util.TreeMap;
import org.kairosdb.client.HttpClient;
import org.kairosdb.client.builder.AggregatorFactory;
import org.kairosdb.client.builder.QueryBuilder;
import org.kairosdb.client.builder.QueryMetric;
import org.kairosdb.client.builder.QueryTagBuilder;
import org.kairosdb.client.builder.TimeUnit;
import org.kairosdb.client.builder.aggregator.SamplingAggregator;
import org.kairosdb.client.builder.grouper.BinGrouper;
import org.kairosdb.client.builder.grouper.TagGrouper;
import org.kairosdb.client.builder.grouper.TimeGrouper;
import org.kairosdb.client.builder.grouper.ValueGrouper;
import org.kairosdb.client.response.GroupResult;
import org.kairosdb.client.response.QueryResult;
import org.kairosdb.client.response.Result;
import org.kairosdb.client.response.TagQueryResult;
import org.kairosdb.client.response.TagResult;
import org.kairosdb.client.response.grouping.TimeGroupResult;

class Reads {
    private final HttpClient client;
    private final String metric;
    private final Date start;
    private final Date end;

    private Reads(String[] arguments) throws Exception {
        client = new HttpClient(arguments[0]);
        metric = arguments[1];
        start = new Date(Long.parseLong(arguments[2]));
        end = new Date(Long.parseLong(arguments[3]));
    }

    public static void main(String[] arguments) throws Exception {
        Reads reads = new Reads(arguments);
        reads.all();
        reads.client.close();
    }

    private void all() throws Exception {
        System.out.println("version " + client.getVersion().startsWith("KairosDB 1.3.0"));
        System.out.println("status " + client.getStatusCheck() + " " + client.getStatus());
        System.out.println("names " + client.getMetricNames().contains(metric));
        query("plain", asked());
        SamplingAggregator average = AggregatorFactory.createAverageAggregator(1, TimeUnit.MINUTES);
        query("average", asked().addAggregator(average.withStartTimeAlignment()));
        query("sum", asked().addAggregator(AggregatorFactory.createSumAggregator(1, TimeUnit.HOURS)));
        query("count", asked().addAggregator(AggregatorFactory.createCountAggregator(5, TimeUnit.MINUTES)));
        query("rate", asked().addGrouper(new TagGrouper("host", "dc"))
            .addAggregator(AggregatorFactory.createRateAggregator(TimeUnit.SECONDS)));
        query("diff", asked().addTag("host", "a").addAggregator(AggregatorFactory.createDiffAggregator()));
        query("div", asked().addAggregator(AggregatorFactory.createDivAggregator(3)));
        query("gaps", asked().addAggregator(AggregatorFactory.createDataGapsMarkingAggregator(5, TimeUnit.MINUTES)));
        query("by time", asked().addGrouper(new TimeGrouper(new org.kairosdb.client.builder.RelativeTime(1, TimeUnit.MINUTES), 2)));
        query("by value", asked().addGrouper(new ValueGrouper(5)));
        query("by bin", asked().addGrouper(new BinGrouper(0.0, 2.5)));
        QueryMetric descending = asked();
        descending.setOrder(QueryMetric.Order.DESCENDING);
        query("descending", descending);
        query("nothing", new QueryMetric(metric + "_that_is_not_there"));
        QueryTagBuilder tags = QueryTagBuilder.getInstance();
        tags.setStart(start).setEnd(end).addMetric(metric);
        for (TagQueryResult asked : client.queryTags(tags).getQueries()) {
            for (TagResult result : asked.getResults()) {
                System.out.println("tags " + result.getName() + " " + new TreeMap<>(result.getTags()));
            }
        }
    }

    // The text of a length of time has the time at which the client made it.
    private static String described(GroupResult group) {
        if (!(group instanceof TimeGroupResult)) {
            return group.toString();
        }
        TimeGroupResult time = (TimeGroupResult) group;
        return time.getRangeSize().getValue() + " " + time.getRangeSize().getUnit() + " "
            + time.getGroupCount() + " " + time.getGroup().getGroupNumber();
    }

    private QueryMetric asked() {
        return new QueryMetric(metric);
    }

    private void query(String name, QueryMetric asked) throws Exception {
        QueryBuilder query = QueryBuilder.getInstance();
        query.setStart(start).setEnd(end);
        query.addMetric(asked);
        for (QueryResult answer : client.query(query).getQueries()) {
            System.out.println(name + ": " + answer.getSampleSize() + " points");
            for (Result result : answer.getResults()) {
                System.out.println("  " + result.getName() + " " + new TreeMap<>(result.getTags()));
                if (result.getGroupResults() != null) {
                    for (GroupResult group : result.getGroupResults()) {
                        System.out.println("    " + group.getName() + " " + described(group));
                    }
                }
                System.out.println("    " + result.getDataPoints());
            }
        }
    }
}
